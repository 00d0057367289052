/**
 * How the committed weights were trained, as data: what `make.js` hands to the parts and the card repeats.
 */

/** Enough for every token of the run to be new. */
export const MIXTURE = { tokens: 45_000_000, seed: 'spark' }

/**
 * The learning rate holds its peak until `decaySteps` before the end, so that the number of tokens could be settled when it
 * was known how many the hours would hold.
 */
export const RUN = { tokens: 40_000_000, decaySteps: 1200, seed: 'spark' }
