"""An I/O server: a simulated power supply becomes three variables of an engine.

    python examples/python/io_server.py --name psu

Then `trunkline put psu/volts 12` and `trunkline monitor 'psu/**'` in another terminal.
"""

import random

import trunkline as tl


class Supply:
    """Stands for the library of the manufacturer."""

    def __init__(self) -> None:
        self.volts = 0.0

    def set_volts(self, volts: float) -> float:
        self.volts = round(volts, 1)
        return self.volts

    def amps(self) -> float:
        return self.volts / 10 + random.gauss(0, 0.01)


class Psu(tl.IoServer):
    """A bench supply."""

    volts = tl.field(float, units="V", range=(0, 30), writable=True)
    amps = tl.field(float, units="A", precision=3, alarm={"hi": 2.5})
    interlock = tl.field(bool, writable=True, initial=False)

    def open(self, config: tl.Config) -> None:
        self.supply = Supply()
        self.volts.publish(self.supply.volts)

    @tl.poll(0.1)
    def scan(self) -> None:
        self.amps.publish(self.supply.amps())

    @volts.on_put
    def set_volts(self, volts: float) -> float:
        if self.interlock.value:
            raise tl.Rejected("the interlock is closed", hint="set psu/interlock to false")
        return self.supply.set_volts(volts)


if __name__ == "__main__":
    Psu.main()
