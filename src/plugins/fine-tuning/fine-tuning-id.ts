/**
 * Ids of fine-tuning jobs: `ftjob-…` of the id of the training job, or of the loop, that does the work.
 */

const PREFIX = 'ftjob-'

export const toFineTuningId = (id: string): string => `${PREFIX}${id}`

/** Of the work; any other text stays, and names nothing. */
export const fromFineTuningId = (id: string): string => (id.startsWith(PREFIX) ? id.slice(PREFIX.length) : id)
