/**
 * What a conversation at the terminal is made of: shared by the loop and its commands.
 */
import type { Client } from '#sdk/client/client.js'
import type { Served } from '../names/model-reference.js'
import type { Session } from './session.js'

/** What the conversation shows beside the answers. */
export interface ReplState {
  /** What answers, for people. */
  label: string
  /** What was asked for on the command line: another step is of the same model. */
  readonly model: string
  hasLogprobs: boolean
  /** Answers every question, too. */
  compared: { readonly label: string; readonly model: string } | null
  /** Every turn is appended to it. */
  savePath: string | null
}

export interface ReplOptions {
  readonly client: Client
  readonly session: Session
  readonly state: ReplState
  readonly hasHistory: boolean
}

/** `orders:step3 · trainyard/spark`; the latest step is named, too, so that answers can be told apart later. */
export function describeServed({ name, model, step }: Served): string {
  if (model === null) return name
  const at = step ?? model.step
  return `${model.name}:step${at}${step === null ? ' (latest)' : ''} · ${model.base_model}`
}
