/**
 * The list envelope and its cursors, shared by every list route, in the form the OpenAI SDKs' pages read.
 */
import { z } from 'zod'
import { canonicalId } from '#base/util/ids.js'
import { laxInteger } from './lax.js'

/** Items per page when the query gives none. */
export const DEFAULT_PAGE_LIMIT = 20
/** Most items per page. */
export const MAX_PAGE_LIMIT = 100

/** `{object: "list", data, first_id, last_id, has_more}` around `item`. */
export function listSchema<T extends z.ZodType>(item: T) {
  return z.object({
    object: z.literal('list').default('list'),
    data: z.array(item),
    first_id: z.string().default(''),
    last_id: z.string().default(''),
    has_more: z.boolean(),
  })
}

/** One page. */
export interface List<T> {
  readonly object: 'list'
  readonly data: readonly T[]
  readonly first_id: string
  readonly last_id: string
  readonly has_more: boolean
}

/** Wraps a page of items in the envelope. */
export function toList<T extends { readonly id: string }>(data: readonly T[], hasMore: boolean): List<T> {
  return { object: 'list', data, first_id: data[0]?.id ?? '', last_id: data.at(-1)?.id ?? '', has_more: hasMore }
}

/** Query of a list route: `after` is the id of the previous page's last item. */
export const pageQuerySchema = z.object({
  after: z.string().max(200).transform(canonicalId).optional(),
  limit: laxInteger({ min: 1, max: MAX_PAGE_LIMIT }).optional(),
})
export type PageQuery = z.infer<typeof pageQuerySchema>

/** Query of a list route that can be turned round. */
export const orderedPageQuerySchema = pageQuerySchema.extend({ order: z.enum(['asc', 'desc']).optional() })
export type OrderedPageQuery = z.infer<typeof orderedPageQuerySchema>
