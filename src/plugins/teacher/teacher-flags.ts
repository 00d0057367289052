/**
 * Who teaches: flags of `train distill`, and the teacher that they name: one behind an address, or a model of this service.
 */
import type { JsonObject } from '#base/util/json.js'
import type { CommandContext } from '#cli/command/context.js'
import { flag } from '#cli/command/flags.js'
import { readKeyFile, requireKey } from '#cli/config/credentials.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { createServedTeacher, createTeacher, type Teacher } from '#plugins/rl-library/teacher.js'
import type { Client } from '#sdk/client/client.js'

export const teacherFlags = {
  teacher: flag.required(
    '--teacher <address|model>',
    'who answers: an address such as https://host/v1, or a model here',
    {
      what: 'an address of the OpenAI API, or a model or base model of this service',
      hint: '--teacher https://host/v1 --teacher-model <name> --teacher-key-file <path>',
    },
  ),
  teacherModel: flag.text('--teacher-model <name>', 'which model at the address'),
  teacherKeyFile: flag.text('--teacher-key-file <path>', 'file with the key of the address; without one none is sent'),
  teacherSystem: flag.text(
    '--teacher-system <text>',
    "system message for the teacher alone, before a prompt's own; the model learns to do without",
  ),
}

export interface TeacherFlags {
  readonly teacher: string
  readonly teacherModel: string | undefined
  readonly teacherKeyFile: string | undefined
  readonly teacherSystem: string | undefined
}

export function isAddress(teacher: string): boolean {
  return /^https?:\/\//.test(teacher)
}

/**
 * What can be said of the flags before anything is asked.
 *
 * @returns the key of an address; null for none
 * @throws {UsageError} `missing_option`, `conflicting_options`; {InvalidRequestError} `invalid_api_key_file`
 */
export async function checkTeacher({ teacher, teacherModel, teacherKeyFile }: TeacherFlags): Promise<string | null> {
  if (!isAddress(teacher)) {
    const [useless] = Object.entries({ '--teacher-model': teacherModel, '--teacher-key-file': teacherKeyFile }).find(
      ([, value]) => value !== undefined,
    ) ?? [null]
    if (useless === null) return null
    throw new UsageError('conflicting_options', `${useless} is for an address, and --teacher "${teacher}" is none`, {
      param: useless,
      hint: 'an address begins with https:// or http://; a model of this service needs no key of its own',
    })
  }
  if (teacherModel === undefined) {
    throw new UsageError('missing_option', '--teacher-model with the name of a model at the address is required', {
      param: '--teacher-model',
      hint: 'the name that its API knows, for example gpt-5-mini',
    })
  }
  if (teacherKeyFile === undefined) return null
  return requireKey(await readKeyFile(teacherKeyFile, '--teacher-key-file'), teacherKeyFile)
}

/** The teacher. @param asked.body fields of each request */
export async function openTeacher(
  context: CommandContext,
  client: Client,
  flags: TeacherFlags,
  asked: { readonly key: string | null; readonly body: JsonObject },
): Promise<Teacher> {
  const { teacher, teacherModel = '', teacherSystem } = flags
  const shared = { body: asked.body, ...(teacherSystem === undefined ? {} : { system: teacherSystem }) }
  if (isAddress(teacher)) return createTeacher({ baseURL: teacher, apiKey: asked.key, model: teacherModel, ...shared })
  const { name } = await resolveServed(context, client, teacher)
  return createServedTeacher(client, { model: name, ...shared })
}
