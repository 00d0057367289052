/**
 * Which addresses outside this machine a process and its children spoke to or listened on: seen by strace where it is
 * installed and may trace, else by looking at the process tree's sockets again and again. Linux only.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SocketWatch {
  /** Put before the program and its arguments. */
  readonly wrapper: readonly string[]
  /** `strace` sees every call; `proc` only sockets that live for some milliseconds. */
  readonly method: 'strace' | 'proc'
  /** Starts looking at a running process; does nothing under strace. */
  watch(pid: number): void
  /** Ends the watch; returns the addresses outside this machine, without repeats. */
  stop(): string[]
}

const LOOK_EVERY_MS = 20
/** Several traced programs append to one log. */
const TRACE = ['strace', '-f', '-qq', '-e', 'trace=connect,bind,sendto,sendmsg,sendmmsg', '-A', '-o']

export function watchSockets(): SocketWatch {
  const directory = mkdtempSync(join(tmpdir(), 'trainyard-sockets-'))
  const log = join(directory, 'trace')
  const seen = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  const isTracing = canTrace(log)
  return {
    wrapper: isTracing ? [...TRACE, log] : [],
    method: isTracing ? 'strace' : 'proc',
    watch: (pid) => {
      if (isTracing) return
      timer = setInterval(() => {
        for (const address of socketsOf(processTree(pid))) seen.add(address)
      }, LOOK_EVERY_MS)
    },
    stop: () => {
      clearInterval(timer)
      if (isTracing) for (const address of addressesIn(readFileSync(log, 'utf8'))) seen.add(address)
      rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
      return [...seen].filter((address) => !isLoopback(address))
    },
  }
}

function canTrace(log: string): boolean {
  try {
    execFileSync(TRACE[0]!, [...TRACE.slice(1), log, 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Internet addresses in strace's words: `inet_addr("10.0.0.1")` and `inet_pton(AF_INET6, "::1"`. */
function addressesIn(trace: string): string[] {
  return [...trace.matchAll(/inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"/g)].map((match) => match[1]!)
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.')
}

function processTree(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    // pid (name) state ppid
    const parent = Number(/\) \S (\d+)/.exec(read(`/proc/${name}/stat`))?.[1] ?? -1)
    if (/^\d+$/.test(name)) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const tree = [root]
  for (const pid of tree) tree.push(...(children.get(pid) ?? []))
  return tree
}

function socketsOf(pids: readonly number[]): string[] {
  const inodes = new Set(pids.flatMap(socketInodes))
  return ['tcp', 'tcp6', 'udp', 'udp6'].flatMap((table) =>
    read(`/proc/net/${table}`)
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => inodes.has(fields[9] ?? ''))
      // a listening socket has no peer: its own address says who may connect
      .map(([, local = '', peer = '']) => fromHex(/:0000$/.test(peer) ? local : peer)),
  )
}

function socketInodes(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]
      return inode === undefined ? [] : [inode]
    })
  } catch {
    return [] // it has ended
  }
}

/** `0100007F:1F90` is 127.0.0.1; the IPv6 loopback address is sixteen bytes in four words. */
function fromHex(text: string): string {
  const hex = text.split(':')[0] ?? ''
  if (hex === '00000000000000000000000001000000') return '::1'
  const word = /^0{16}FFFF0000(.{8})$/.exec(hex)?.[1] ?? hex
  if (word.length !== 8) return hex
  return [6, 4, 2, 0].map((at) => Number.parseInt(word.slice(at, at + 2), 16)).join('.')
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
