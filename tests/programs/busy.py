"""A program with a bit of everything pstats shows: recursion, mutual recursion,
generators, builtins, two lambdas on a line, names of many letters, imports."""

import difflib
import json
import re


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def numbers(n):
    for i in range(n):
        yield i


def größe(text):
    return len(text)


class Work:
    def __init__(self):
        self.done = []

    def step(self):
        self.done.append(sum(numbers(10)))
        return (lambda: 1)() + (lambda: 2)()


def main():
    fib(12)
    even(40)
    work = Work()
    for _ in range(50):
        work.step()
    größe("größe")
    json.loads(json.dumps({str(i): list(range(10)) for i in range(100)}))
    for i in range(20):
        re.compile("a%db*" % i)
    list(difflib.unified_diff(["a", "b"] * 10, ["b", "c"] * 10))
    sorted([3, 1, 2], key=lambda x: -x)


main()
