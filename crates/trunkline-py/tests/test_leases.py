"""Leases."""

from __future__ import annotations

import pytest
import trunkline as tl


def test_a_lease_keeps_others_from_writing() -> None:
    with tl.Engine.local({"rig": {"a": "f64", "b": "f64"}}, listen="127.0.0.1:0") as owner:
        with tl.connect(f"tl+tcp://{owner.addresses[0]}", timeout=20) as other:
            with owner.lease(["rig/a", "rig/b"], seconds=60) as lease:
                with pytest.raises(tl.Rejected) as refused:
                    other.put("rig/a", 1.0)
                assert refused.value.code == "leased"
                owner.put("rig/a", 2.0)
                lease.renew()
                with pytest.raises(tl.BatchError):
                    other.lease("rig/b").acquire()
            other.put("rig/a", 3.0)
            assert owner.get("rig/a") == 3.0
