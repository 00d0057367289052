/**
 * Whose address it is, as limits count: an IPv4 address alone, of IPv6 the /64, which one subscriber has.
 */
import { isIP } from 'node:net'

/** @param address as a socket or a proxy names it */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '')
  if (isIP(plain) !== 6) return plain
  const [host = ''] = plain.toLowerCase().split('%')
  const [head = '', tail] = host.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  // an IPv4 address at the end stands for two groups, which lie outside of the first four
  const length = left.length + right.length + (right.at(-1)?.includes('.') === true ? 1 : 0)
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - length)
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right]
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
