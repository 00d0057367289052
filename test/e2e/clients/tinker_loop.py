"""The Tinker client against a server: supervised, policy losses, a custom loss, samples, scores, states. Prints JSON."""

import json
import sys

import tinker
from tinker import types

url, key, model = sys.argv[1:4]


def done(value):
    """Some calls of the client answer at once, some with a future."""
    return value.result() if hasattr(value, "result") else value


service = tinker.ServiceClient(base_url=url, api_key="tml-" + key)
run = done(service.create_lora_training_client(base_model=model, rank=8, seed=1))
ids = [1, 50, 60, 70, 80, 90, 100, 110]


def row(**inputs):
    return types.Datum(
        model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], **inputs}
    )


ones = [1.0] * (len(ids) - 1)
adam = types.AdamParams(learning_rate=5e-3)
sent = []
for _ in range(5):
    sent.append((run.forward_backward([row(weights=ones)] * 4, loss_fn="cross_entropy"), run.optim_step(adam)))
losses = [loss.result().metrics["loss:sum"] for loss, step in sent if step.result()]

now = run.forward([row(weights=ones)], loss_fn="cross_entropy").result()
logprobs = now.loss_fn_outputs[0]["logprobs"].tolist()
policy = {}
for name in ["importance_sampling", "ppo", "cispo", "dro"]:
    result = run.forward_backward([row(logprobs=logprobs, advantages=ones)], loss_fn=name).result()
    policy[name] = result.metrics["loss:sum"]
run.optim_step(adam).result()

refused = ""
try:
    run.forward_backward([row(weights=ones)], loss_fn="stable_reinforce").result()
except tinker.RequestFailedError as error:
    refused = str(error)

sampler = done(run.save_weights_and_get_sampling_client())
prompt = types.ModelInput.from_ints(ids[:3])
answers = sampler.sample(prompt, 3, types.SamplingParams(max_tokens=4, temperature=0.5)).result().sequences
scores = sampler.compute_logprobs(types.ModelInput.from_ints(ids)).result()
trainer = run.forward([row(weights=ones)], loss_fn="cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist()

path = run.save_state("five").result().path
other = done(service.create_training_client_from_state_with_optimizer(path))
after = [
    (each.forward_backward([row(weights=ones)], "cross_entropy"), each.optim_step(adam), each.forward([row(weights=ones)], "cross_entropy"))
    for each in (run, other)
]
resumed = [third.result().metrics["loss:sum"] for _, _, third in after]
saved = run.save_weights_for_sampler("final").result().path
again = done(service.create_sampling_client(model_path=saved))
text = again.sample(prompt, 1, types.SamplingParams(max_tokens=2)).result().sequences[0]
kept = [each.checkpoint_id for each in service.create_rest_client().list_user_checkpoints().result().checkpoints]

print(
    json.dumps(
        {
            "losses": losses,
            "policy": policy,
            "now": now.metrics["loss:sum"],
            "refused": refused,
            "answers": [[len(each.tokens), len(each.logprobs), each.stop_reason] for each in answers],
            "scored": [scores[0], max(abs(a - b) for a, b in zip(scores[1:], trainer))],
            "resumed": resumed,
            "tokens": len(text.tokens),
            "kept": sorted(kept),
        }
    )
)
