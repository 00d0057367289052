/**
 * How the committed weights were trained, as data: what `make.js` hands to the parts and the card repeats.
 *
 * Two phases, because after 1,350 steps yes and no were still guessed: from then on such answers begin with their reason, and
 * copying and spelling come more often.
 */

/**
 * @typedef {{ name: string, tokens: number, seed: string, isBrief: boolean, emphasis: string }} Mixture `isBrief`: yes and no
 *   without a reason; `emphasis`: factors on the shares of sources
 */

/** Every token of the run is new: mixtures are larger than what is read of them. @type {Mixture} */
const brief = { name: 'mixture', tokens: 45_000_000, seed: 'spark', isBrief: true, emphasis: '' }

/** @type {Mixture} */
const reasoned = {
  name: 'mixture-2',
  tokens: 12_000_000,
  seed: 'spark-2',
  isBrief: false,
  emphasis:
    'repeat=1.7,spell=1.4,yes-no=1.3,reverse=1.2,sort=1.1,arithmetic=1.1,sentiment=0.5,continents=0.5,story=0.6,fill-json=0.7,explain=0.4,text-dictionary=0.5,text-stories=0.6,text-geography=0.6,tool-call=0.9,tool-answer=0.9',
}

/** @type {readonly { mixture: Mixture, untilStep: number }[]} */
export const PHASES = [
  { mixture: brief, untilStep: 1350 },
  { mixture: reasoned, untilStep: 2400 },
]

/** The learning rate holds its peak until `decaySteps` before the end: how long the run would be was settled on the way. */
export const RUN = { tokens: 19_660_800, decaySteps: 700, seed: 'spark' }
