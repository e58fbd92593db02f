"""Makes empty files until the kernel's memory is full of their names."""

ON, EARNS, SECONDS = "stubs", 0, 5.0

for number in range(100_000):
    try:
        with open(f"/tmp/{number:0200}", "w"):
            pass
    except OSError:
        break
else:
    won("a hundred thousand files")
