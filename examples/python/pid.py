"""A PID loop as an I/O server: it reads a variable of the engine, and writes another one.

    trunkline demo
    python examples/python/pid.py --name pid input=boiler/level output=boiler/feed

Its gains, its setpoint and its state are variables too: `trunkline put pid/setpoint 60`.
"""

import time

import trunkline as tl


class Pid(tl.IoServer):
    """A PID controller."""

    enabled = tl.field(bool, writable=True, initial=True)
    setpoint = tl.field(float, writable=True, initial=50.0)
    gain = tl.field(float, writable=True, initial=2.0)
    integral_time = tl.field(float, units="s", range=(0.1, 1e6), writable=True, initial=30.0)
    derivative_time = tl.field(float, units="s", range=(0, 1e6), writable=True, initial=0.0)
    error = tl.field(float)
    output = tl.field(float, units="%")

    def open(self, config: tl.Config) -> None:
        self.input = self.engine[config["input"]]
        self.actuator = self.engine[config["output"]]
        self.integral = 0.0
        self.last: tuple[float, float] | None = None

    @tl.poll(0.1)
    def control(self) -> None:
        now, value = time.monotonic(), self.input.get()
        error = self.setpoint.value - value
        self.error.publish(error)
        if not self.enabled.value:
            self.last = None
            return
        derivative = 0.0
        if self.last is not None:
            step = now - self.last[0]
            derivative = (error - self.last[1]) / step
            self.integral += error * step / self.integral_time.value
        self.last = (now, error)
        wanted = self.gain.value * (error + self.integral + self.derivative_time.value * derivative)
        output = min(max(wanted, 0.0), 100.0)
        # While the actuator is at its end, the integral does not grow further.
        self.integral += (output - wanted) / self.gain.value if self.gain.value else 0.0
        self.actuator.put(output)
        self.output.publish(output)


if __name__ == "__main__":
    Pid.main()
