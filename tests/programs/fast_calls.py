"""A program that does all it does in functions of some ten nanoseconds, until it is
killed: faster than anybody looks twice. It says "ready" once they are specialised.
"""


class Cell:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value

    def add(self, other):
        value = self.value + other
        if value > 1000:
            value -= 1000
        self.value = value


def mix(cell, i):
    cell.add(i & 7)
    return scale(cell.get()) - scale(i)


def scale(x):
    y = x * 3
    y = y + 7
    y = y * 5
    y = y - x
    return y


def turn(cell, times):
    total = 0
    for i in range(times):
        total += mix(cell, i)
    return total


cell = Cell(1)
turn(cell, 10_000)
print("ready", flush=True)
while True:
    turn(cell, 100_000)
