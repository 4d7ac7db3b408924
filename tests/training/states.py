"""The file state.json of a checkpoint, written without the package."""

import hashlib
import json
from typing import Any


def state_bytes(progress: dict[str, Any], sha256: dict[str, str]) -> bytes:
    """Return the bytes of a state.json with the checksum of its own contents."""
    values = {"progress": progress, "sha256": sha256}
    own = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**values, "state_sha256": own}, indent=2) + "\n").encode()
