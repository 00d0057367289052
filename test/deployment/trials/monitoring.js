/** The trial of watching: what Prometheus' own program says of the metrics and of the documented alerts. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { chat, expect, hasProgram, need, readOperations, runProgram } from '../kit.js'

/** vLLM's names, which dashboards made for it want, break the rules of names in these two ways. */
const OF_VLLM = /^vllm:\w+ (metric names should not contain ':'|non-counter metrics should not have "_total" suffix)$/

const HOST = 'instance="a",job="trainyard"'

/** A server in every trouble at once, with its series as it writes them: promtool compares the alerts that fire. */
const FIRING = {
  interval: '1m',
  input_series: [
    { series: `trainyard_data_directory_free_bytes{${HOST}}`, values: '1e9x60' },
    { series: `http_requests_total{${HOST},status="200"}`, values: '0+60x60' },
    { series: `http_requests_total{${HOST},status="503"}`, values: '0+60x60' },
    { series: `trainyard_training_jobs{${HOST},status="failed"}`, values: '0x30 1x30' },
    { series: `trainyard_training_jobs{${HOST},status="queued"}`, values: '3x60' },
    { series: `trainyard_training_jobs{${HOST},status="running"}`, values: '0x60' },
    { series: `vllm:num_requests_waiting{${HOST},model_name="m",engine="0"}`, values: '20x60' },
    { series: `nodejs_eventloop_lag_p99_seconds{${HOST}}`, values: '2x60' },
    { series: `up{${HOST}}`, values: '0x60' },
  ],
  promql_expr_test: ['Down', 'DiskNearlyFull', 'Errors', 'JobsFail', 'JobsWait', 'ChatsWait', 'Slow'].map((name) => ({
    expr: `count(ALERTS{alertname="Trainyard${name}",alertstate="firing"})`,
    eval_time: '50m',
    exp_samples: [{ labels: '{}', value: 1 }],
  })),
}

export const MONITORING_TRIALS = [
  {
    name: 'metrics and documented alerts by promtool',
    async run(kit) {
      need(hasProgram('promtool'), 'promtool is not installed (Debian: prometheus)')
      const server = await kit.serve()
      await chat(server.api)
      const text = await (await fetch(`${server.url}/metrics`)).text()
      const { stdout, stderr } = await runProgram('promtool', ['check', 'metrics'], { input: text })
      const complaints = `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !OF_VLLM.test(line))
      expect(complaints.length === 0, complaints.join('; '))

      const alerts = /```yaml\n(groups:[\s\S]+?)```/.exec(readOperations())?.[1]
      expect(alerts !== undefined, 'the documentation has no alerts')
      const file = path.join(kit.folder(), 'alerts.yml')
      writeFileSync(file, alerts)
      const checked = await runProgram('promtool', ['check', 'rules', file])
      expect(checked.code === 0, `promtool check rules says ${checked.stdout}${checked.stderr}`)
      const tested = path.join(kit.folder(), 'tests.yml')
      writeFileSync(tested, JSON.stringify({ rule_files: [file], evaluation_interval: '1m', tests: [FIRING] }))
      const fired = await runProgram('promtool', ['test', 'rules', tested])
      expect(fired.code === 0, `promtool test rules says ${fired.stdout}${fired.stderr}`)
      // a rule on a metric that nobody has would never fire
      const names = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
      const exprs = [...alerts.matchAll(/expr: (.+)$/gm)].map(([, expr]) => expr)
      const used = exprs.flatMap((expr) => expr.match(/\b(?:vllm:|trainyard_|http_|process_|nodejs_)\w+/g) ?? [])
      expect(used.length > 3, 'the alerts name no metrics')
      for (const name of used) {
        expect(names.has(name) || names.has(name.replace(/_(bucket|count|sum)$/, '')), `no metric is called ${name}`)
      }
    },
  },
]
