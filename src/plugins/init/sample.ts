/**
 * Example prompts for users who have none yet: mails, in which the order number is asked for. The built-in model answers a few of them
 * rightly, so that there is something to reward. The held-out prompts have other names and numbers.
 */
import type { JsonObject } from '#base/util/json.js'

const NAMES = ['Anna', 'Tom', 'Omar', 'Lena', 'Ravi']
const MAILS = [
  (order: number, name: string) => `Hello, where is order ${order}? Regards, ${name}.`,
  (order: number, name: string) => `My order ${order} is late. ${name}`,
  (order: number, name: string) => `Order ${order} came today. Thank you, ${name}.`,
]

/** Forty mails. */
export function sampleRows(): readonly JsonObject[] {
  return Array.from({ length: 40 }, (_, i) => {
    const order = 11 + 2 * i
    const mail = MAILS[i % MAILS.length]?.(order, NAMES[i % NAMES.length] ?? '') ?? ''
    return { prompt: `${mail} Which number is the order?`, answer: String(order) }
  })
}
