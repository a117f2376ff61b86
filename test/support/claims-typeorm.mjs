// Read by `createApplication`.
process.env.CLAIMS = 'typeorm';
