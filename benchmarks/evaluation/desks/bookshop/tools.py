"""The tools of a bookshop: cancelling, returning and exchanging."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel

ACTING: Final = frozenset({"cancel_order", "change_address", "return_copies", "exchange_copies"})


class Edition(BaseModel):
    title: str
    form: str
    price: int
    stock: int


class Customer(BaseModel):
    name: str
    address: str
    credit: int = 0
    orders: list[str]


class Order(BaseModel):
    customer: str
    address: str
    editions: list[str]
    status: Literal["open", "delivered", "cancelled", "returned", "exchanged"]
    returned: list[str] = []


class Database(BaseModel):
    customers: dict[str, Customer]
    """By e-mail address."""
    orders: dict[str, Order]
    editions: dict[str, Edition]


class Tools:
    """What a clerk can do."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def find_customer(self, email: str) -> Customer:
        """Return a customer's name, address, credit in euros, and orders."""
        if email not in self.db.customers:
            raise ValueError("There is no customer of this address.")
        return self.db.customers[email]

    def find_order(self, order: str) -> Order:
        """Return an order: its editions, address and status."""
        if order not in self.db.orders:
            raise ValueError("There is no such order.")
        return self.db.orders[order]

    def find_editions(self, title: str) -> dict[str, Edition]:
        """Return the editions of a title, with prices in euros and stock."""
        return {name: each for name, each in self.db.editions.items() if each.title == title}

    def cancel_order(self, order: str) -> Order:
        """Cancel an open order; the amount paid becomes credit."""
        found = self._order(order, "open")
        self._pay(found, -sum(self.db.editions[each].price for each in found.editions))
        self._restock(found.editions, 1)
        found.status = "cancelled"
        return found

    def change_address(self, order: str, address: str) -> Order:
        """Send an open order to another address."""
        found = self._order(order, "open")
        found.address = address
        return found

    def return_copies(self, order: str, editions: list[str]) -> Order:
        """Take copies of a delivered order back; their price becomes credit."""
        found = self._order(order, "delivered")
        self._require(found, editions)
        self._pay(found, -sum(self.db.editions[each].price for each in editions))
        found.status, found.returned = "returned", editions
        return found

    def exchange_copies(self, order: str, editions: list[str], others: list[str]) -> Order:
        """Exchange copies of a delivered order for other editions of the same titles, one for one."""
        found = self._order(order, "delivered")
        self._require(found, editions)
        pairs = [(self.db.editions[one], self.db.editions[other]) for one, other in zip(editions, others, strict=True)]
        if any(one.title != other.title or not other.stock for one, other in pairs):
            raise ValueError("Each copy can be exchanged for another edition of its title that is in stock.")
        self._pay(found, sum(other.price - one.price for one, other in pairs))
        self._restock(others, -1)
        found.status, found.returned = "exchanged", editions
        found.editions = [each for each in found.editions if each not in editions] + others
        return found

    def call_a_person(self, reason: str) -> str:  # noqa: ARG002  # a person reads it
        """Hand the customer over to a person."""
        return "A person takes over."

    def _order(self, order: str, status: str) -> Order:
        found = self.find_order(order)
        if found.status != status:
            raise ValueError(f"The order is {found.status}, not {status}.")
        return found

    def _require(self, order: Order, editions: Sequence[str]) -> None:
        if not editions or not set(editions) <= set(order.editions):
            raise ValueError("These copies are not of this order.")

    def _pay(self, order: Order, price: int) -> None:
        customer = self.db.customers[order.customer]
        if customer.credit < price:
            raise ValueError("The credit is not enough.")
        customer.credit -= price

    def _restock(self, editions: Sequence[str], count: int) -> None:
        for each in editions:
            self.db.editions[each].stock += count
