"""Greedy continuations by transformers, on the CPU in float32.

    python transformers-greedy.py '{"model": "folder", "adapter": null, "prompts": [[1, 2]], "count": 24, "text": "..."}'

Prints {"tokens": [[...]], "textTokens": [...]}. Needs torch and transformers, and peft for an adapter; tests look for them in
.cache/torch-venv and are skipped where there is none.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

job = json.loads(sys.argv[1])
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(job['model'], torch_dtype=torch.float32).eval()
if job.get('adapter'):
    from peft import PeftModel

    model = PeftModel.from_pretrained(model, job['adapter'])
tokens = []
for prompt in job['prompts']:
    answer = []
    with torch.no_grad():
        for _ in range(job['count']):
            logits = model(torch.tensor([prompt + answer])).logits[0, -1]
            answer.append(int(logits.argmax()))
    tokens.append(answer)
text = AutoTokenizer.from_pretrained(job['model'])(job['text'], add_special_tokens=False)['input_ids']
print(json.dumps({'tokens': tokens, 'textTokens': text}))
