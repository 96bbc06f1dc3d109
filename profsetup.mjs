import { Session } from 'node:inspector';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';
const s=new Session();
beforeAll(()=>{s.connect();s.post('Profiler.enable');s.post('Profiler.setSamplingInterval',{interval:1000});s.post('Profiler.start');});
afterAll(()=>{s.post('Profiler.stop',(e,r)=>writeFileSync(`/tmp/prof/p-${process.pid}.cpuprofile`,JSON.stringify(r.profile)));});
