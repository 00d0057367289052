/**
 * What computes on an engine node, as its HTTP side sees it. There are two: our own engine in this process (`onnx-node.ts`), and
 * vLLM in processes of its own (`vllm-node.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EngineNodeReport, NodeEngineName } from '#contract/processes/engine-node.js'

export interface NodeEngine {
  readonly engine: NodeEngineName
  readonly contextLength: number
  /** Answers it computes at once. */
  readonly slots: number
  readonly device: string
  readonly versions: EngineNodeReport['versions']
  /** False while it cannot take requests. */
  readonly isReady: boolean
  readonly running: number
  readonly waiting: number
  /** Digests of adapters that it holds. */
  readonly adapters: readonly string[]
  /** Answers a `POST /inference/v1/generate`. Failures before the first byte are thrown. */
  generate(request: IncomingMessage, response: ServerResponse): Promise<void>
  /** The files of an adapter go. */
  dropAdapter(digest: string): Promise<void>
  /** Resolves when nothing runs. */
  idle(): Promise<void>
  close(): Promise<void>
}
