"""The books of a bakery with four shops: small enough to add up by hand, varied enough to be asked about."""

import csv
import io
from datetime import date

SALES = """day,shop,product,pieces,revenue_eur,discount_percent
2024-11-02,Market Square,rye bread,40,168.00,0
2024-12-20,Harbour Street,stollen,65,780.00,5
2025-01-04,Market Square,rye bread,52,218.40,0
2025-01-11,Market Square,croissant,110,242.00,0
2025-01-18,Old Mill,rye bread,31,130.20,10
2025-02-01,Harbour Street,croissant,95,209.00,0
2025-02-15,Old Mill,cheesecake,12,342.00,0
2025-03-08,Station,croissant,150,330.00,0
2025-03-22,Market Square,cheesecake,9,256.50,5
2025-04-05,Station,rye bread,28,117.60,0
2025-04-19,Harbour Street,rye bread,44,184.80,0
2025-05-10,Old Mill,croissant,60,132.00,0
2025-06-14,Station,cheesecake,7,199.50,0
2025-07-05,Market Square,croissant,130,286.00,0
2025-07-19,Station,croissant,170,374.00,10
2025-08-02,Harbour Street,cheesecake,15,427.50,0
2025-08-23,Old Mill,rye bread,36,151.20,0
2025-09-06,Market Square,rye bread,58,243.60,0
2025-09-27,Station,croissant,165,363.00,5
2025-11-15,Harbour Street,stollen,80,960.00,0
2025-12-06,Old Mill,stollen,45,540.00,0
"""
SHOPS = """shop,city,manager,opened,seats
Market Square,Ansdorf,Petra Lund,1987,14
Harbour Street,Ansdorf,Omar Haddad,2003,22
Old Mill,Bregen,Jutta Weiss,1998,30
Station,Bregen,Kofi Mensah,2019,0
"""
DELIVERIES = """delivery_id,supplier,shop,ordered_on,minutes_late,damaged,remark
101,Hofer Flour,Market Square,2025-01-03,0,false,all sacks dry and complete
102,Hofer Flour,Old Mill,2025-01-09,45,false,driver new to the route
103,Nordic Dairy,Station,2025-02-12,130,true,two crates of butter melted
104,Nordic Dairy,Harbour Street,2025-03-03,20,false,came with the second van
105,Hofer Flour,Station,2025-04-22,75,true,one sack of flour torn open
106,Sunfruit,Old Mill,2025-05-30,240,true,cherries bruised by a fall
107,Nordic Dairy,Market Square,2025-07-14,10,false,came at the usual time
108,Sunfruit,Harbour Street,2025-07-28,95,false,held up at the bridge
109,Hofer Flour,Old Mill,2025-09-01,0,false,all sacks dry and complete
110,Nordic Dairy,Station,2025-10-17,185,true,butter soft after a long stop
111,Sunfruit,Market Square,2025-10-30,15,false,apples sorted as agreed
"""
TABLES = {"sales": SALES, "shops": SHOPS, "deliveries": DELIVERIES}


class Sale:
    def __init__(self, row: dict[str, str]) -> None:
        self.day = date.fromisoformat(row["day"])
        self.shop = row["shop"]
        self.product = row["product"]
        self.pieces = int(row["pieces"])
        self.revenue = float(row["revenue_eur"])
        self.discount = int(row["discount_percent"])


class Delivery:
    def __init__(self, row: dict[str, str]) -> None:
        self.number = int(row["delivery_id"])
        self.supplier = row["supplier"]
        self.shop = row["shop"]
        self.ordered = date.fromisoformat(row["ordered_on"])
        self.late = int(row["minutes_late"])
        self.damaged = row["damaged"] == "true"
        self.remark = row["remark"]


def sales() -> list[Sale]:
    return [Sale(row) for row in csv.DictReader(io.StringIO(SALES))]


def deliveries() -> list[Delivery]:
    return [Delivery(row) for row in csv.DictReader(io.StringIO(DELIVERIES))]


CITY = {row["shop"]: row["city"] for row in csv.DictReader(io.StringIO(SHOPS))}
