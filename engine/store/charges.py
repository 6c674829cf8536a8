"""What users have spent outside the queue of benchmarks, whose jobs know their own cost."""

from __future__ import annotations

from sqlalchemy import select

from engine.store.database import Database
from engine.store.schema import charges


class ChargeRecords(Database):
    def set_charge(self, charge_id: str, owner: str, usd: float) -> None:
        """Note what something has cost, or is expected to, in place of what was noted under the same id. It counts when it was last set."""
        values = {"owner": owner, "at": self.now(), "usd": usd}
        upsert = self.insert(charges).values(charge_id=charge_id, **values)
        with self.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=["charge_id"], set_=values))

    def charges(self, owner: str, since: float = 0.0) -> dict[str, float]:
        """Dollars of an owner's charges by id, set at or after `since` (seconds since 1970)."""
        wanted = select(charges.c.charge_id, charges.c.usd).where(charges.c.owner == owner, charges.c.at >= since)
        with self.read() as connection:
            return {row.charge_id: row.usd for row in connection.execute(wanted)}
