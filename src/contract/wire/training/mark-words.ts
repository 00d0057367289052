/**
 * Words and bounds of marks, apart from their schemas: commands and the page need no schema library for them.
 */
import { TARGET_OF, TRAINING_TARGETS, type TrainingTarget } from './row-forms/purposes.js'

/** What a reader thinks of an answer. */
export const MARKS = ['good', 'bad'] as const
export type MarkWord = (typeof MARKS)[number]

/** What the answer stands in. */
export const MARK_SOURCES = ['training_job', 'log', 'chat'] as const
export type MarkSource = (typeof MARK_SOURCES)[number]

/** Rows that are made of marks: conversations for supervised jobs, preferences for preference jobs. */
export const MARK_FORMS = TRAINING_TARGETS
export type MarkForm = TrainingTarget

/** Whether a row is a conversation to learn, and not a preference. */
export function isConversationForm(form: MarkForm): boolean {
  return form === TARGET_OF.conversation
}

/** Why a mark made no row of a form. */
export const MARK_LEFT_OUT = [
  /** A conversation is learned: a bad answer is one only with what it should have said. */
  'bad_without_edit',
  /** A preference needs two answers: no mark of the other kind has this prompt. */
  'without_partner',
  /** Its partner says the same. */
  'equal_answers',
] as const
export type MarkLeftOut = (typeof MARK_LEFT_OUT)[number]
/** For people, behind a number of marks. */
export const LEFT_OUT_WORDS: Readonly<Record<MarkLeftOut, string>> = {
  bad_without_edit: 'bad, without what they should have said',
  without_partner: 'without another answer to the same prompt',
  equal_answers: 'with a partner that says the same',
}

/** Longest answer that is typed in the place of one, and longest note, in UTF-16 units. */
export const MAX_EDITED = 100_000
export const MAX_NOTE = 2000
