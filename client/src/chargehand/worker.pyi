from chargehand_worker.embedding import Worker as Worker
from chargehand_worker.embedding import run as run
