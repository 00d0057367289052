/**
 * What graders may reach beyond this server, by its settings: models at other servers (`name=url,VARIABLE`, where the
 * variable holds the key), hosts of endpoints, and variables that headers name.
 */
import { type Environment, readEnvironment } from '#base/environment.js'
import { readTeachers, type Teachers } from './grading/teachers.js'

export interface Outside {
  readonly teachers: Teachers
  readonly hosts: readonly string[]
  readonly variables: ReadonlyMap<string, string>
}

export function readOutside(
  settings: {
    readonly teachers: readonly string[]
    readonly hosts: readonly string[]
    readonly variables: readonly string[]
  },
  environment: Environment = readEnvironment(),
): Outside {
  const set = settings.variables.flatMap((name) => {
    const value = environment[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { teachers: readTeachers(settings.teachers, environment), hosts: settings.hosts, variables: new Map(set) }
}
