"""`python -m trainyard_torch`: answers one message after the other until its parent ends.

    → nothing                      ← ready: versions, device
    → open: a base model           ← opened
    → forward: rows, an adapter    ← scores: logp, entropy
    → backward: d loss / d logp    ← gradients, by the tensor's name
                                   ← error: code, message; the process goes on
"""

import os
import sys

# before torch is loaded: cuBLAS sums in one order only with a workspace of a fixed size
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

NEEDED = {"torch": (1, 13), "transformers": (4, 45)}


def main():
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        # without arrays there is no frame: the parent reads stderr
        sys.stderr.write(f"missing package: {error.name}\n")
        sys.exit(3)
    from .frames import Frames

    frames = Frames()
    problem = installation_problem()
    if problem is not None:
        frames.send({"type": "error", **problem})
        return
    from .worker import serve

    serve(frames)


def installation_problem():
    """What keeps the packages from being used, as the fields of an error; None if nothing does."""
    for name, least in NEEDED.items():
        try:
            module = __import__(name)
        except ImportError as error:
            missing = error.name or name
            return {"code": "missing_package", "message": f"the package {missing} is missing ({error})"}
        except Exception as error:
            return {"code": "broken_package", "message": f"the package {name} does not load: {error}"}
        version = tuple(int(part) for part in module.__version__.split("+")[0].split(".")[:2])
        if version < least:
            wanted = ".".join(str(part) for part in least)
            return {"code": "old_package", "message": f"{name} is {module.__version__}, expected {wanted} or later"}
    return None


main()
