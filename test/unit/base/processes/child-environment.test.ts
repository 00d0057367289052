import { describe, expect, test } from 'vitest'
import { childEnvironment } from '#base/processes/child-environment.js'

const SECRETS = {
  PGPASSWORD: 's',
  AWS_SECRET_ACCESS_KEY: 's',
  WANDB_API_KEY: 's',
  HF_TOKEN: 's',
  TRAINYARD_API_KEY: 's',
  VLLM_API_KEY: 's',
  NCCL_AUTH_FILE: 's',
}

describe('childEnvironment', () => {
  test('has what every process needs, and by need what a program of that kind reads', () => {
    const environment = {
      PATH: '/bin',
      LC_ALL: 'C',
      OMP_NUM_THREADS: '2',
      PYTHONPATH: '/x',
      VLLM_LOGGING_LEVEL: 'DEBUG',
    }
    expect(childEnvironment(environment)).toEqual({ PATH: '/bin', LC_ALL: 'C' })
    expect(childEnvironment(environment, ['computing'])).toEqual({ PATH: '/bin', LC_ALL: 'C', OMP_NUM_THREADS: '2' })
    expect(childEnvironment(environment, ['computing', 'python'])).toEqual(environment)
  })

  test('has the certificates that Node trusts, and the way through a proxy only where it calls a server elsewhere', () => {
    const trust = { NODE_EXTRA_CA_CERTS: '/ca.pem', NODE_USE_SYSTEM_CA: '1' }
    const proxies = {
      ...{ HTTP_PROXY: 'http://a', HTTPS_PROXY: 'http://b', NO_PROXY: 'c', NODE_USE_ENV_PROXY: '1' },
      ...{ http_proxy: 'http://a', https_proxy: 'http://b', no_proxy: 'c' },
    }
    const environment = { ...trust, ...proxies }
    expect(childEnvironment(environment, ['computing', 'python'])).toEqual(trust)
    const list = 'c,127.0.0.1,localhost,[::1]'
    expect(childEnvironment(environment, ['calling'])).toEqual({ ...environment, NO_PROXY: list, no_proxy: list })
    expect(childEnvironment(trust, ['calling'])).toEqual(trust)
  })

  test('has no secret, also of names whose prefix is allowed', () => {
    expect(childEnvironment(SECRETS, ['computing', 'python'])).toEqual({})
  })

  test('has the names of Windows in whatever case', () => {
    const environment = { Path: 'C:\\', SystemRoot: 'C:\\Windows' }
    expect(childEnvironment(environment)).toEqual(environment)
  })

  test('has what the operator names, for the children of children too', () => {
    const environment = {
      TRAINYARD_PASS_ENVIRONMENT: 'SITE_LIBRARY, HF_TOKEN',
      SITE_LIBRARY: '/x',
      HF_TOKEN: 's',
      OTHER: 'o',
    }
    const passed = childEnvironment(environment)
    const { OTHER: _, ...expected } = environment
    expect(passed).toEqual(expected)
    expect(childEnvironment(passed)).toEqual(expected)
  })
})
