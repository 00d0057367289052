/**
 * How the committed weights were trained: phase after phase, each going on from the state of the one before.
 *
 * Two decisions made on the way stand here as data, because they are part of the weights. The schedule was first laid
 * out for 16 M tokens and changed at steps 200, 550, 800 and 1050, when it was known how many steps the hours would hold. At step 500 the model could do
 * little that needs copying, so the rest of the run saw three times as much repeating and less of the dictionary.
 */

/**
 * @typedef {{ name: string, tokens: number, seed: string, emphasis: string }} Mixture
 * @typedef {{ mixture: Mixture, tokens: number, untilStep: number }} Phase `tokens` lays out the schedule of the learning rate
 */

/** @type {Mixture} */
const even = { name: 'mixture', tokens: 24_000_000, seed: 'spark-1', emphasis: '' }

/** @type {Mixture} */
const copying = {
  name: 'mixture-2',
  tokens: 9_000_000,
  seed: 'spark-2',
  emphasis:
    'repeat=3,spell=1.6,reverse=1.6,sort=1.2,arithmetic=1.2,fill-json=1.2,capitals=1.5,text-dictionary=0.3,text-stories=0.5,story=0.6,explain=0.5',
}

/** @type {readonly Phase[]} */
export const PHASES = [
  { mixture: even, tokens: 16_000_000, untilStep: 200 },
  { mixture: even, tokens: 11_059_200, untilStep: 500 },
  { mixture: copying, tokens: 11_059_200, untilStep: 550 },
  { mixture: copying, tokens: 13_107_200, untilStep: 800 },
  { mixture: copying, tokens: 11_468_800, untilStep: 1050 },
  { mixture: copying, tokens: 10_813_440, untilStep: 1320 },
]
