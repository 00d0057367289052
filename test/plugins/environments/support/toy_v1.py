"""A taskset of verifiers 0.4 whose reward is half of whether the reply has an even number of characters."""

import verifiers.v1 as vf

class ToyConfig(vf.TasksetConfig):
    size: int = 12

class ToyTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.5)
    async def length(self, trace) -> float:
        reply = trace.last_reply or ""
        return 1.0 if len(reply) % 2 == 0 else 0.0

class ToyTaskset(vf.Taskset[ToyTask, ToyConfig]):
    def load(self):
        for i in range(self.config.size):
            yield ToyTask(vf.TaskData(prompt=f"How many letters has {'ab' * (i + 1)}?"))

__all__ = ["ToyTaskset"]
