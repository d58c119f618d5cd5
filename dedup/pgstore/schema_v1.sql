CREATE TABLE retrysafe_schema (
    version integer NOT NULL
);

INSERT INTO retrysafe_schema (version) VALUES (1);

-- Fences of both kinds of store. Without a cache, so that they rise across
-- sessions too.
CREATE SEQUENCE retrysafe_fences AS bigint CACHE 1;

-- What transactional stores have recorded. A row is written by the transaction
-- whose effects it stands for.
CREATE TABLE retrysafe_outcomes (
    scope               bytea NOT NULL,
    method              bytea NOT NULL,
    id                  bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    fence               bigint NOT NULL,
    record              bytea NOT NULL,
    completed_at        timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (scope, method, id)
);

CREATE INDEX retrysafe_outcomes_expires_at ON retrysafe_outcomes (expires_at);

-- Claims and outcomes of leased stores. state: 1 claimed, 2 completed, 3
-- released. waited: somebody wants to be notified when the claim ends.
CREATE TABLE retrysafe_leases (
    scope               bytea NOT NULL,
    method              bytea NOT NULL,
    id                  bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    owner               bytea NOT NULL,
    fence               bigint NOT NULL,
    attempt             integer NOT NULL,
    state               smallint NOT NULL,
    waited              boolean NOT NULL,
    lease_until         timestamptz NOT NULL,
    record              bytea,
    completed_at        timestamptz,
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (scope, method, id)
);

CREATE INDEX retrysafe_leases_expires_at ON retrysafe_leases (expires_at);

-- Ends a batch whose operation is not its to execute, before its statements
-- run. Its caller looks for the outcome next.
CREATE FUNCTION retrysafe_refuse() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'RS001', MESSAGE = 'retrysafe: the operation is held or recorded';
END
$$;

-- Ends a batch whose query for its own record found none.
CREATE FUNCTION retrysafe_no_record() RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'RS002', MESSAGE = 'retrysafe: the query for the record returned none';
END
$$;
