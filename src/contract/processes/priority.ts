/**
 * Whose answers an engine computes first: those of a lower number, of people 0.
 */

/** Requests of this priority or a higher number are computed only while no other is: answers that nobody waits for. */
export const BEHIND_ALL = 100_000_000
