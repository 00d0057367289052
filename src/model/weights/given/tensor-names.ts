/**
 * Names that tensors have in files of all kinds, and the one name that a decoder's tensor has here.
 *
 * Knows prefixes only: what wraps a model when it is saved (PEFT, `torch.compile`, data-parallel training) and where a model for images
 * and text keeps its text part.
 */
import { textTensorName } from '../text-part.js'

/** What wraps a model, outermost first: PEFT, `torch.nn.DataParallel` and DDP, `torch.compile`, FSDP. */
const WRAPPERS = /^(?:base_model\.model\.|module\.|_orig_mod\.|_fsdp_wrapped_module\.)/
/** Modules at the top of a decoder that was saved without its head. */
const BARE = /^(?:layers\.\d+\.|embed_tokens(?:\.|$)|norm\.)/

/** The name or path without what wraps it: `base_model.model.model.language_model.layers.0…` becomes `model.layers.0…`. */
export function plainTensorName(name: string): string {
  const unwrapped = unwrappedName(name)
  const plain = textTensorName(unwrapped) ?? unwrapped
  return BARE.test(plain) ? `model.${plain}` : plain
}

/** The name without what wraps the model alone: `module._orig_mod.model.norm.weight` becomes `model.norm.weight`. */
export function unwrappedName(name: string): string {
  let plain = name
  while (WRAPPERS.test(plain)) plain = plain.replace(WRAPPERS, '')
  return plain
}
