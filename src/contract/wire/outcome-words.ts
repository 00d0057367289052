/**
 * How a prompt fared at one step against another. Plain words, for who loads no schemas.
 */
export const OUTCOMES = ['worse', 'better', 'same'] as const
export type Outcome = (typeof OUTCOMES)[number]
