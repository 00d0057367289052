/**
 * Orders of a list of models, which the command line needs without the schemas. `-`: the newest, or last active, first.
 */
export const MODEL_ORDERS = ['created', '-created', '-last_active', 'name'] as const
export type ModelOrder = (typeof MODEL_ORDERS)[number]
