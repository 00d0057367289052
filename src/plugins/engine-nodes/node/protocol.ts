/**
 * Messages between an engine node's process and the command that starts it, over Node IPC. Types only.
 */
import type { ErrorMessage } from '#base/errors/error-message.js'
import type { NodeEngineName } from '#contract/processes/engine-node.js'

/** What a node is started with; sent once, first. */
export interface NodeStart {
  readonly type: 'start'
  readonly serverUrl: string
  readonly apiKey: string
  readonly name: string
  readonly baseModel: string
  readonly engine: NodeEngineName
  /** Null: the address by which this machine reaches the server. */
  readonly host: string | null
  /** 0: any free one. */
  readonly port: number
  /** Where the server reaches the node; null: where it listens. */
  readonly url: string | null
  /** Base models and prepared weights are kept there. */
  readonly directory: string
  /** Adapters that are kept. */
  readonly maxAdapters: number
  /** How long a server that does not answer is tried. */
  readonly patienceMs: number
  readonly maxContextLength: number | null
  readonly maxSequences: number
  readonly threads: number | null
  readonly precision: 'auto' | 'f32' | 'int8' | 'int4'
  readonly kvCacheBytes: number | null
  readonly vllm: {
    readonly command: string
    readonly args: readonly string[]
    readonly maxLoras: number
    readonly maxLoraRank: number
  }
}

/** Takes nothing new; ends when what runs has ended, or at the deadline. */
export interface NodeStop {
  readonly type: 'stop'
  readonly deadlineMs: number
}

export type NodeCommand = NodeStart | NodeStop

export type NodeEvent =
  /** A step of the start, as a sentence. */
  | { readonly type: 'starting'; readonly what: string }
  | {
      readonly type: 'ready'
      readonly url: string
      readonly engine: NodeEngineName
      readonly versions: Readonly<Record<string, string>>
      readonly device: string
    }
  | { readonly type: 'server_away'; readonly reason: string }
  | { readonly type: 'server_back' }
  /** Files are not had from where the server keeps them, but through it. */
  | { readonly type: 'store_unreached'; readonly reason: string }
  | { readonly type: 'engine_away'; readonly reason: string }
  | { readonly type: 'engine_back' }
  /** Last of all, unless it was told to stop. */
  | { readonly type: 'failed'; readonly error: ErrorMessage }
  | { readonly type: 'stopped' }
