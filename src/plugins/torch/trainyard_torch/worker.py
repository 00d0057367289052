"""Messages in, computations, messages out. An error is an answer: it names its kind, and the parent says it in its own words."""

import platform

import torch
import transformers

from .model import Model, UnsupportedModel


def serve(frames):
    """Answers messages until the parent ends, which ends the process."""
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    transformers.logging.set_verbosity_error()
    frames.send({"type": "ready", **versions()})
    desk = Desk()
    while True:
        header, arrays = frames.receive()
        frames.send(*desk.answer(header, arrays))


class Desk:
    """Holds the one open model."""

    def __init__(self):
        self._model = None

    def answer(self, header, arrays):
        """Header and arrays of the answer."""
        try:
            return self._result(header, arrays)
        except Exception as error:
            code, message = code_of(error), first_line(error)
        # behind the handler, whose traceback holds what the computation held
        if self._model is not None:
            self._model.drop()
        if code == "out_of_memory":
            message = memory_figures(default_device() if self._model is None else self._model.device)
        return {"type": "error", "code": code, "message": message}, {}

    def _result(self, header, arrays):
        kind = header["type"]
        if kind == "open":
            self._model = None
            if header["threads"] is not None:
                torch.set_num_threads(header["threads"])
            self._model = open_model(header, arrays)
            return {"type": "opened"}, {}
        if kind == "forward":
            return {"type": "scores"}, self._model.forward(header, arrays)
        if kind == "backward":
            return {"type": "gradients"}, self._model.backward(arrays)
        raise ValueError(f"no message is called {kind}")


def open_model(header, arrays):
    device = default_device() if header["device"] == "auto" else header["device"]
    frequencies = {kind: torch.from_numpy(arrays[kind]) for kind in ("full", "sliding") if kind in arrays}
    return Model(header, frequencies, device)


def default_device():
    if torch.cuda.is_available():
        return "cuda"
    mps = getattr(torch.backends, "mps", None)
    return "mps" if mps is not None and mps.is_available() else "cpu"


def versions():
    device = default_device()
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": device,
        "device_name": name,
        "free_bytes": free_bytes(device),
    }


def free_bytes(device):
    """Memory that the device could still give, bytes; None where it is the machine's own, which the parent measures."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else None


def code_of(error):
    if isinstance(error, UnsupportedModel):
        return "unsupported_model"
    is_short = isinstance(error, (MemoryError, getattr(torch.cuda, "OutOfMemoryError", MemoryError)))
    if is_short or "not enough memory" in str(error) or "out of memory" in str(error):
        return "out_of_memory"
    return "failed"


def memory_figures(device):
    if device != "cuda":
        return "PyTorch got no more memory from the machine"
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return f"PyTorch got no more memory: {free // 2**20} of {total // 2**20} MB of {torch.cuda.get_device_name()} are free beside the job"


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
