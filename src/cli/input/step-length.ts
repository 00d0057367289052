/**
 * How many tokens an optimizer step of `train rl` covers when the user does not say.
 *
 * The API's own default is the library's: rows of 2,048 tokens, right for models of billions of parameters on thousands of
 * answers. Small models learn from a few hundred short answers in more, smaller steps.
 */

/** Parameters below which steps are this many tokens; larger models get the API's default. */
const STEPS_BY_SIZE = [
  { below: 50e6, tokensPerStep: 384 },
  { below: 1e9, tokensPerStep: 1024 },
]

/**
 * Tokens per optimizer step, from the size that a base model's name tells.
 *
 * @returns null to leave it to the server: the name tells no size, or a large one
 * @example defaultTokensPerStep('HuggingFaceTB/SmolLM2-135M-Instruct') // 1024
 */
export function defaultTokensPerStep(baseModel: string): number | null {
  const size = baseModel.startsWith('trainyard/') ? 0 : sizeFromName(baseModel)
  return STEPS_BY_SIZE.find(({ below }) => size !== null && size < below)?.tokensPerStep ?? null
}

function sizeFromName(name: string): number | null {
  const [, digits, unit] = /(?:^|[-_/ ])(\d+(?:\.\d+)?)([mb])(?=$|[-_/. ])/i.exec(name) ?? []
  if (digits === undefined) return null
  return Number(digits) * (unit?.toLowerCase() === 'm' ? 1e6 : 1e9)
}
