"""A program whose stack never holds still, built to fool whoever reads it meanwhile.

    tearing.py calls | generators

Functions come in families that are alike to the byte: their frames have the same size
and lie at the same addresses, one after the other, within microseconds. A function only
ever calls the next one of its own family, so a stack that mixes families, or leaves
one out, never existed. `legal()` says who may call whom, by their names.

It says "ready" and runs until it is killed.
"""

import random
import sys

FAMILIES = 8
DEPTHS = (1, 2, 3, 5, 8, 13, 21, 34, 40)

# Every other family has some more variables: frames of other sizes, in the same place.
CALLS = """
def a_{i}(n):
    {locals}
    if n:
        b_{i}(n - 1)
    return n

def b_{i}(n):
    {locals}
    if n:
        c_{i}(n - 1)
    return n

def c_{i}(n):
    {locals}
    if n:
        a_{i}(n - 1)
    return n
"""
GENERATORS = """
def a_{i}(n):
    for x in b_{i}(n):
        pass

def b_{i}(n):
    {locals}
    if n:
        yield from c_{i}(n - 1)
    yield d_{i}(n)

def c_{i}(n):
    {locals}
    if n:
        for x in b_{i}(n - 1):
            yield x
    yield d_{i}(n)

def d_{i}(n):
    {locals}
    return n
"""
NEXT = {
    "calls": {"a": "b", "b": "c", "c": "a"},
    "generators": {"a": "b", "b": "cd", "c": "bd", "d": ""},
}


def legal(kind):
    """The pairs (caller, callee) that there are, and the only callers of a_*."""
    pairs = {("turn", "a_%d" % i) for i in range(FAMILIES)}
    for i in range(FAMILIES):
        for caller, callees in NEXT[kind].items():
            pairs |= {("%s_%d" % (caller, i), "%s_%d" % (c, i)) for c in callees}
    return pairs


def make(kind):
    """The functions a_*, of which each begins a family."""
    made = {}
    for i in range(FAMILIES):
        more = "x = y = z = n" if i % 2 else "pass"
        template = CALLS if kind == "calls" else GENERATORS
        exec(template.format(i=i, locals=more), made)
    return [made["a_%d" % i] for i in range(FAMILIES)]


def turn(functions, depths):
    for function in functions:
        for depth in depths:
            function(depth)


def main():
    functions = make(sys.argv[1])
    depths = list(DEPTHS if sys.argv[1] == "calls" else DEPTHS[:6])
    print("ready", flush=True)
    while True:
        random.shuffle(functions)
        random.shuffle(depths)
        turn(functions, depths)


if __name__ == "__main__":
    main()
