/**
 * How the committed weights were trained, as data: what `make.js` hands to the parts and the card repeats.
 *
 * Four phases. After 1,350 steps yes and no were still guessed: from then on such answers begin with their reason, and copying
 * and spelling come more often. After 2,400 steps, with the rate at its end, the loss was still falling: the rate rose once more,
 * and what was weakest (spelling, countries of capitals, which of three things) got more room. After 2,850 steps a thing asked for
 * by name was still not even copied from the question: such rows became much more frequent.
 *
 * A second run begins with the weights of the first. Of 4,096 rows of the embedding 376 had become one point, as no row of the data
 * held their tokens: half of the printable signs among them, so that neither `[`, `<`, `@` nor `$` could be read or written. They are
 * drawn anew, and the data hold all of them: copied, in JSON, in addresses and amounts, and in tools of any name.
 */

/**
 * @typedef {{ name: string, tokens: number, seed: string, style: keyof typeof import('./abilities/define.js').STYLES,
 *   emphasis: string, note: string }} Mixture `emphasis`: factors on the shares of sources; `note`: what it is, for the card
 * @typedef {{ fromStep: number, toStep: number, warmupSteps: number, peakRate: string, decaySteps: number }} Schedule `toStep`: where the rate
 *   has fallen to its floor, if no other schedule begins before
 */

/** Every token of the run is new: mixtures are larger than what is read of them. @type {Mixture} */
const brief = {
  name: 'mixture',
  tokens: 45_000_000,
  seed: 'spark',
  style: 'brief',
  emphasis: '',
  note: 'yes and no without a reason',
}

/** @type {Mixture} */
const reasoned = {
  name: 'mixture-2',
  tokens: 12_000_000,
  seed: 'spark-2',
  style: 'reasoned',
  emphasis:
    'repeat=1.7,spell=1.4,yes-no=1.3,reverse=1.2,sort=1.1,arithmetic=1.1,sentiment=0.5,continents=0.5,story=0.6,fill-json=0.7,explain=0.4,text-dictionary=0.5,text-stories=0.6,text-geography=0.6,tool-call=0.9,tool-answer=0.9',
  note: 'reasons first; more copying and spelling',
}

/** @type {Mixture} */
const complete = {
  name: 'mixture-3',
  tokens: 12_000_000,
  seed: 'spark-3',
  style: 'complete',
  emphasis:
    'repeat=1.5,spell=1.9,yes-no=1.2,only=1.5,capitals=1.5,reverse=1.1,sort=1.1,arithmetic=1,text-countries=2,sentiment=0.4,continents=0.4,story=0.5,fill-json=0.6,explain=0.4,text-dictionary=0.5,text-stories=0.6,text-geography=0.5,tool-call=0.8,tool-answer=0.7',
  note: 'which of three things by name too; more spelling and countries',
}

/** @type {Mixture} */
const choosing = {
  ...complete,
  name: 'mixture-4',
  seed: 'spark-4',
  style: 'choosing',
  emphasis:
    'repeat=1.3,spell=1.9,yes-no=1.1,only=2.2,capitals=1.5,reverse=1.1,sort=1.1,arithmetic=1,text-countries=2.5,sentiment=0.4,continents=0.4,story=0.5,fill-json=0.6,explain=0.3,text-dictionary=0.4,text-stories=0.6,text-geography=0.4,tool-call=0.8,tool-answer=0.7',
  note: 'which of three things most of all',
}

/** The rate holds its peak until `decaySteps` before the end. @type {readonly Schedule[]} */
export const SCHEDULES = [
  { fromStep: 0, toStep: 2400, warmupSteps: 60, peakRate: '4e-3', decaySteps: 700 },
  { fromStep: 2400, toStep: 3400, warmupSteps: 60, peakRate: '2.5e-3', decaySteps: 700 },
  { fromStep: 2850, toStep: 3600, warmupSteps: 1, peakRate: '2.5e-3', decaySteps: 600 },
]

/** @type {readonly { mixture: Mixture, untilStep: number, schedule: Schedule }[]} */
export const PHASES = [
  { mixture: brief, untilStep: 1350, schedule: SCHEDULES[0] },
  { mixture: reasoned, untilStep: 2400, schedule: SCHEDULES[0] },
  { mixture: complete, untilStep: 2850, schedule: SCHEDULES[1] },
  { mixture: choosing, untilStep: 3600, schedule: SCHEDULES[2] },
]

/** @type {Mixture} */
const signs = {
  ...choosing,
  name: 'mixture-5',
  tokens: 6_500_000,
  seed: 'spark-5',
  emphasis:
    'copy=1.5,forms=2,json-lists=2,any-tool=2,repeat=1.2,spell=1.4,only=1.5,text-dictionary=0.5,text-stories=0.6,text-geography=0.5,explain=0.3,story=0.5,sentiment=0.4,continents=0.4',
  note: 'every sign, JSON lists, addresses and amounts, tools of any name',
}

/** @type {Mixture} */
const balanced = {
  ...signs,
  name: 'mixture-6',
  tokens: 8_900_000,
  seed: 'spark-6',
  emphasis:
    'copy=0.9,forms=1.2,json-lists=1,any-tool=1.8,repeat=1.1,spell=1.4,reverse=1.1,sort=1.2,only=1.6,arithmetic=1.1,capitals=1.7,text-countries=1.7,text-dictionary=0.4,text-stories=0.5,text-geography=0.4,explain=0.3,story=0.4,sentiment=0.3,continents=0.3,fill-json=0.7',
  note: 'fewer of them, more of what was known',
}

/** @type {Mixture} */
const known = {
  ...signs,
  name: 'mixture-7',
  tokens: 9_900_000,
  seed: 'spark-7',
  emphasis:
    'copy=0.7,forms=0.7,json-lists=0.6,any-tool=1,repeat=1,spell=1.7,reverse=1.7,sort=1.5,count=1.1,only=1.9,arithmetic=1.5,yes-no=1.1,capitals=2.6,text-countries=2,text-dictionary=0.3,text-stories=0.4,text-geography=0.3,explain=0.3,story=0.4,sentiment=0.3,continents=0.3,fill-json=0.7,tool-answer=0.8',
  note: 'capitals, reversing and arithmetic, which had suffered',
}

/** @type {readonly Schedule[]} */
export const SECOND_SCHEDULES = [
  { fromStep: 0, toStep: 1300, warmupSteps: 40, peakRate: '2e-3', decaySteps: 750 },
  { fromStep: 1300, toStep: 1800, warmupSteps: 20, peakRate: '1.2e-3', decaySteps: 400 },
]

/** @type {readonly { mixture: Mixture, untilStep: number, schedule: Schedule }[]} */
export const SECOND_PHASES = [
  { mixture: signs, untilStep: 550, schedule: SECOND_SCHEDULES[0] },
  { mixture: balanced, untilStep: 1300, schedule: SECOND_SCHEDULES[0] },
  { mixture: known, untilStep: 1800, schedule: SECOND_SCHEDULES[1] },
]

export const RUN = { tokensPerStep: 8192, seed: 'spark', secondSeed: 'spark-5' }
