/**
 * Models at other servers that graders may ask, as they are named to a server and on the command line: `name=url,VARIABLE`,
 * where the variable holds the key.
 */
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { AskModel, ModelResponse } from './model-grader.js'

/** By the name that graders call it. */
export type Teachers = ReadonlyMap<string, AskModel>

/** @throws {InvalidRequestError} `invalid_setting` for what is no teacher, and for a variable that is not set */
export function readTeachers(given: readonly string[], environment: Environment): Teachers {
  return new Map(given.map((text) => readTeacher(text, environment)))
}

function readTeacher(text: string, environment: Environment): readonly [string, AskModel] {
  const [, name, url, variable] = /^([^=,]+)=([^,]+)(?:,(\w+))?$/.exec(text) ?? []
  const wrong = (message: string): InvalidRequestError =>
    new InvalidRequestError('invalid_setting', message, {
      param: 'teachers',
      hint: 'name=url,VARIABLE, for example judge=https://api.example.com/v1,JUDGE_KEY; without a key name=url',
    })
  if (name === undefined || url === undefined) throw wrong(`"${text}" names no teacher`)
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw wrong(`the teacher ${name} must have an https: or http: address, got ${url}`)
  }
  const apiKey = variable === undefined ? null : (environment[variable] ?? null)
  if (variable !== undefined && apiKey === null)
    throw wrong(`the key of the teacher ${name} is not in the variable ${variable}`)
  const ask: AskModel = async (json, { signal }) => {
    const { createHttp } = await import('#sdk/client/http.js')
    // who grades asks again
    const http = createHttp({ baseUrl: url, apiKey, maxRetries: 0 })
    return await http.json<ModelResponse>({ method: 'POST', path: '/chat/completions', json, isLong: true, signal })
  }
  return [name, ask]
}
