"""tinker-cookbook's supervised loop with a tokenizer and a renderer that are registered for trainyard/spark. Prints JSON.

Arguments: the server's address, a key, the folder of spark's tokenizer, a file of conversations, a folder for logs.
"""

import asyncio
import json
import sys

import httpx
from tinker_cookbook import renderers, tokenizer_utils
from tinker_cookbook.renderers.qwen3 import Qwen3InstructRenderer
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig
from transformers import AutoTokenizer

url, key, assets, conversations, logs = sys.argv[1:6]
MODEL = "trainyard/spark"

# spark's template is ChatML, as is that of this renderer
tokenizer_utils.register_tokenizer(MODEL, lambda: AutoTokenizer.from_pretrained(assets))
renderers.register_renderer("trainyard/chatml", lambda tokenizer, image_processor=None: Qwen3InstructRenderer(tokenizer))

messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Which town?"}]
renderer = renderers.get_renderer("trainyard/chatml", tokenizer_utils.get_tokenizer(MODEL))
rendered = renderer.build_generation_prompt(messages).to_ints()
server = httpx.post(
    f"{url}/tokenize", headers={"authorization": f"Bearer {key}"}, json={"model": MODEL, "messages": messages}
).json()["tokens"]

common = ChatDatasetBuilderCommonConfig(
    model_name_for_tokenizer=MODEL, renderer_name="trainyard/chatml", max_length=256, batch_size=8
)
config = train.Config(
    log_path=logs,
    model_name=MODEL,
    recipe_name="trainyard",
    renderer_name="trainyard/chatml",
    dataset_builder=FromConversationFileBuilder(common_config=common, file_path=conversations),
    learning_rate=3e-3,
    num_epochs=8,
    lora_rank=8,
    save_every=0,
    base_url=url,
)
asyncio.run(train.main(config))

print(json.dumps({"rendered": rendered, "server": server, "stop": renderer.get_stop_sequences()}))
