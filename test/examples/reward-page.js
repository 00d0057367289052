/** The page of `reward-service.js`: what got rewards, newest first. A browser loads this file as it is. */

/** @type {import('trainyard/plugin').PluginModule<HTMLElement>['mount']} */
export async function mount(element, { api, navigate }) {
  const { data } = await api('/v1/preview/reward/scores')
  const list = document.createElement('ul')
  for (const { text, reward } of data) {
    const item = document.createElement('li')
    // text of others is text, whatever it says
    item.textContent = `${reward}: ${text}`
    list.append(item)
  }
  const jobs = document.createElement('button')
  jobs.textContent = 'Jobs'
  jobs.addEventListener('click', () => navigate('/jobs'))
  element.append(list, jobs)
}
