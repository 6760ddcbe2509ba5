"""Generates tokens greedily: decode.py FOLDER transformers|ctranslate2 [int8]. See contender.py."""

import sys

import numpy
import torch
import transformers

from contender import FOLDER, ROW, serve

prompts = ROW["prompts"]
if sys.argv[2] == "transformers":
    model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER / "hf").eval()
    model.generation_config.eos_token_id = None
    inputs = torch.tensor(prompts)

    def run():
        with torch.inference_mode():
            tokens = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False,
                                    max_new_tokens=ROW["new_tokens"])
        return tokens[:, inputs.size(1):].tolist()
else:
    import ctranslate2

    compute_type = sys.argv[3] if len(sys.argv) > 3 else "float32"
    names = [str(i) for i in range(ROW["vocab"])]
    folder = FOLDER / f"ctranslate2_{compute_type}"

    class Converter(ctranslate2.converters.TransformersConverter):
        """Converts a model without a tokenizer: the tokens are the numbers."""

        def load_tokenizer(self, tokenizer_class, model_name_or_path, **kwargs):
            class Tokenizer:
                unk_token = bos_token = eos_token = names[0]
                additional_special_tokens = ()

                def get_vocab(self):
                    return {name: i for i, name in enumerate(names)}

            return Tokenizer()

    Converter(str(FOLDER / "hf")).convert(str(folder), quantization=compute_type, force=True)
    generator = ctranslate2.Generator(str(folder), compute_type=compute_type, intra_threads=ROW["threads"])
    starts = [[names[token] for token in prompt] for prompt in prompts]

    def run():
        results = generator.generate_batch(starts, max_length=ROW["new_tokens"], min_length=ROW["new_tokens"],
                                           end_token=[], include_prompt_in_result=False)
        return [result.sequences_ids[0] for result in results]

if "weights" in ROW:  # CTranslate2
    logits = generator.forward_batch([starts[0]], return_log_probs=False)  # (1, T, V)
    serve({"outputs": numpy.array(logits)[0, -1, :1000].tolist()}, run)
else:
    serve({"tokens": run()}, run)
