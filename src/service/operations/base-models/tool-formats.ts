/**
 * Forms of tool calls that were set by hand, for models whose chat templates do not show the one that they write.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { TOOL_FORMATS, type ToolFormat } from '#formats/answers/calls/call-formats.js'

/** @returns the form of a base model's calls; null: what its template shows */
export type ToolFormatRule = (baseModel: string) => ToolFormat | null

export interface ToolFormats {
  readonly of: ToolFormatRule
  /** Base models that a form was set for by name. */
  readonly named: readonly string[]
}

/**
 * @param values forms for all base models, or `name=form` for one, which comes before; of several the last one counts
 * @throws {InvalidRequestError} `invalid_setting` for a form that is not known
 */
export function resolveToolFormats(values: readonly string[]): ToolFormats {
  const byModel = new Map<string, ToolFormat>()
  let forAll: ToolFormat | null = null
  for (const value of values) {
    // names of models may hold anything but this
    const at = value.lastIndexOf('=')
    const written = value.slice(at + 1)
    const format = TOOL_FORMATS.find((known) => known === written)
    if (format === undefined) {
      throw new InvalidRequestError(
        'invalid_setting',
        `a form of tool calls must be one of ${TOOL_FORMATS.join(', ')}, got "${written.slice(0, 100)}"`,
        { param: 'toolFormats', hint: 'write the form alone for all base models, or name=form for one' },
      )
    }
    if (at < 0) forAll = format
    else byModel.set(value.slice(0, at), format)
  }
  return { of: (baseModel) => byModel.get(baseModel) ?? forAll, named: [...byModel.keys()] }
}
