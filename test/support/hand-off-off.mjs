// Read by `createApplication`.
process.env.HAND_OFF = 'off';
