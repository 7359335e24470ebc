"""The tools of a night train company: booking, changing and cancelling berths."""

from typing import Final, Literal

from pydantic import BaseModel

ACTING: Final = frozenset({"book", "cancel_booking", "change_train", "add_luggage"})
_LUGGAGE: Final = 15

Class = Literal["couchette", "cabin"]


class Train(BaseModel):
    route: str
    day: str
    free: dict[Class, int]
    prices: dict[Class, int]


class Traveller(BaseModel):
    name: str
    status: Literal["gold", "none"] = "none"
    charged: int = 0
    """Total charged to the card so far."""
    vouchers: dict[str, int] = {}
    bookings: list[str]


class Passenger(BaseModel):
    name: str
    born: str


class Booking(BaseModel):
    traveller: str
    train: str
    berths: Class
    passengers: list[Passenger]
    luggage: int = 0
    paid: int
    status: Literal["booked", "cancelled"] = "booked"


class Database(BaseModel):
    travellers: dict[str, Traveller]
    trains: dict[str, Train]
    bookings: dict[str, Booking]


class Tools:
    """What a clerk can do."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def find_traveller(self, traveller: str) -> Traveller:
        """Return a traveller's status, vouchers and bookings."""
        if traveller not in self.db.travellers:
            raise ValueError("There is no such traveller.")
        return self.db.travellers[traveller]

    def find_booking(self, booking: str) -> Booking:
        """Return a booking."""
        if booking not in self.db.bookings:
            raise ValueError("There is no such booking.")
        return self.db.bookings[booking]

    def find_trains(self, route: str, day: str) -> dict[str, Train]:
        """Return the trains of a route on a day.

        Args:
            route: Such as Basel-Hamburg.
            day: Such as 2026-06-05.
        """
        return {name: each for name, each in self.db.trains.items() if (each.route, each.day) == (route, day)}

    def book(self, traveller: str, train: str, berths: Class, passengers: list[Passenger], vouchers: list[str]) -> str:
        """Book a berth for each passenger; vouchers pay first, then the card. Return the booking number."""
        people = [Passenger.model_validate(each) for each in passengers]
        payer, price = self.find_traveller(traveller), self._price(train, berths) * len(people)
        if not set(vouchers) <= set(payer.vouchers):
            raise ValueError("The traveller has no such voucher.")
        self._occupy(train, berths, len(people))
        payer.charged += max(0, price - sum(payer.vouchers.pop(each) for each in vouchers))
        number = f"N-{len(self.db.bookings) + 1}"
        self.db.bookings[number] = Booking(
            traveller=traveller, train=train, berths=berths, passengers=people, paid=price
        )
        payer.bookings.append(number)
        return number

    def cancel_booking(self, booking: str) -> Booking:
        """Cancel a booking, and refund the card."""
        found = self._booked(booking)
        self._occupy(found.train, found.berths, -len(found.passengers))
        self.db.travellers[found.traveller].charged -= found.paid
        found.status = "cancelled"
        return found

    def change_train(self, booking: str, train: str, berths: Class) -> Booking:
        """Move a booking to another train or class; the card pays the difference."""
        found = self._booked(booking)
        count = len(found.passengers)
        difference = (self._price(train, berths) - self._price(found.train, found.berths)) * count
        self._occupy(train, berths, count)
        self._occupy(found.train, found.berths, -count)
        self.db.travellers[found.traveller].charged += difference
        found.train, found.berths, found.paid = train, berths, found.paid + difference
        return found

    def add_luggage(self, booking: str, pieces: int) -> Booking:
        """Add pieces of luggage to a booking, charged to the card."""
        found = self._booked(booking)
        found.luggage += pieces
        found.paid += _LUGGAGE * pieces
        self.db.travellers[found.traveller].charged += _LUGGAGE * pieces
        return found

    def call_a_person(self, reason: str) -> str:  # noqa: ARG002  # a person reads it
        """Hand the traveller over to a person."""
        return "A person takes over."

    def _booked(self, booking: str) -> Booking:
        found = self.find_booking(booking)
        if found.status != "booked":
            raise ValueError("The booking is cancelled.")
        return found

    def _price(self, train: str, berths: Class) -> int:
        if train not in self.db.trains:
            raise ValueError("There is no such train.")
        return self.db.trains[train].prices[berths]

    def _occupy(self, train: str, berths: Class, count: int) -> None:
        free = self.db.trains[train].free
        if free[berths] < count:
            raise ValueError("There are not enough berths.")
        free[berths] -= count
