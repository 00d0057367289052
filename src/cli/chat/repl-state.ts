/**
 * What a conversation at the terminal is made of: shared by the loop and its commands.
 */
import type { Client } from '#api/client/client.js'
import type { Session } from './session.js'

/** What the conversation shows beside the answers. */
export interface ReplState {
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
  /** What is asked, for people. */
  readonly title: string
  readonly state: ReplState
  readonly hasHistory: boolean
}
