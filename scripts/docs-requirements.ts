import { writeFileSync } from 'node:fs';
import { requirementsPage } from './requirements.js';

writeFileSync('docs/requirements.md', requirementsPage('.'));
