/**
 * How a prompt fared at one step compared with another. Plain words, for code that loads no schemas.
 */
export const OUTCOMES = ['worse', 'better', 'same'] as const
export type Outcome = (typeof OUTCOMES)[number]
