// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package git is a connector whose clusters are folders of a git repository: what the engine of package rsync applies and deletes
// becomes commits, and a GitOps agent on each cluster, such as Flux or Argo CD, does the rest.
//
//	connectors, err := git.New(map[string]git.Repository{
//		"edge+*": {
//			URL:  "https://git.example.com/fleet.git",
//			Path: "clusters",
//			Auth: git.Auth{Username: "rsync", PasswordFile: "/etc/rsync/token"},
//		},
//	}, git.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// go run ./examples/rsync serve --git URL is a program with such clusters.
//
// Clusters that share a repository and a branch share one clone in memory. A batch is one commit; batches that come while a
// push is under way go out together in the next one, and all who ask in that time are answered by one look at the server.
//
// # Layout
//
// Each object is a file with its manifest, byte for byte:
//
//	<path>/<provider>+<cluster>/<namespace, or _cluster>/<kind>.<group>/<name>.yaml
//	clusters/edge+c1/shop/Deployment.apps/web.yaml
//	clusters/edge+c1/shop/ConfigMap/settings.yaml
//	clusters/edge+c1/_cluster/Namespace/shop.yaml
//
// Let the agent of a cluster read the folder that [Repository.Directory] returns, with all below it. Other files there, and in the
// whole repository, stay as they are, so a kustomization.yaml may be put beside the folders of the namespaces.
//
// Names are written as they are where they have small letters, digits, '-', '.' and '_' only, which is nearly always. All else is
// a percent sign and two hexadecimal digits: capitals (but for those of kinds) since they do not count on some file systems, a dot
// at the beginning, slashes, colons. Names of more than 240 bytes end with a hash. An object named kustomization gets a percent sign
// too: agents read that file as a list of others; so do one named cloudbuild, and folders that would end like pictures and archives, which
// Flux leaves out. Where two names would differ in capitals only, a file is where a folder must be, or a folder or a submodule
// where a file must be, the batch is refused. A file or a link at the path of an object is taken for the object's, whoever put it there.
//
// When the last object of a cluster is deleted its folder stays, with an empty file .gitkeep: agents take an empty folder for
// "prune all", and one that is gone for an error.
//
// Manifests are written as they are: do not put a Secret into a repository that others read, but what makes one, such as a
// SealedSecret or an ExternalSecret. The order of objects in a batch, and hooks, are the agent's from then on: the engine knows only that
// they were committed.
//
// # States
//
// An object exists, and is ready, when its file is at the tip of the branch on the server. So a dependency on Ready, a wave, and a hook wait for the
// commit only, and Terminated means that the files are gone. [Options].Status can say more: it sees each answer of Get before the
// engine does, and may ask the cluster. Without Status, delete policies of hooks work as follows:
//
//   - hook-succeeded is a terminal error, because the hook's file would be deleted before an agent
//     has run the hook,
//   - before-hook-creation deletes the file and commits it again. An agent may see only the last
//     commit. It then runs a hook again only if the manifest has changed,
//   - hook-failed has no effect, because no failure is reported.
//
// # Differences
//
// The connector is a [connector.Differ]: it compares manifests with the files at the tip of the branch, and fetches the files that
// differ. A server with uploadpack.allowReachableSHA1InWant sends only these, others send all files of the commit, within MaxFetchBytes.
//
// # Guarantees
//
//   - A batch is committed as a whole or not at all, and one that changes nothing makes no commit.
//   - A push only ever adds to the branch: the server is told which commit we saw and compares. When others, engines or people,
//     were faster, their commits are fetched, the batch is made again on top of them, and pushed, up to [Options].PushAttempts times. Nothing
//     is forced.
//   - A push whose answer got lost is found on the server by the next attempt. It is not committed twice.
//   - A server that refuses commits pushed together gets each alone, so that one cluster's trouble stays its own.
//   - Only folders are fetched and kept: no history, and no files where the server has uploadpack.allowFilter; else files are
//     thrown away as they arrive. An apply costs the folders on the way to its files, however large the repository is.
//   - No worktree is checked out, no program of the repository is run, no submodule or link is followed.
//
// # Errors
//
// They are [connector.Error]s with the class that the engine goes by. None has a password, a token, or what a server says in prose.
//
//	unreachable  no connection, a broken one, no answer in time, an expired certificate; HTTP 502, 503, 504
//	retryable    others pushed faster all the time; a file of the configuration cannot be read; HTTP 408, 429, 500; a server that
//	             reports an error that we do not know
//	terminal     wrong credentials, access denied, no such repository or branch, an unverified server, a repository beyond
//	             MaxFetchBytes; a push that a hook or a protected branch declines; a manifest that is broken, has a field twice, is of another object, or
//	             too large; a name that is taken in the repository; a hook with hook-succeeded without Options.Status
//
// A hook that declines is terminal, since most hooks are rules. Probe asks for the list of branches. It returns nil also
// when the server refuses, for now or for good: it has answered, and the next call says what is wrong. However many clusters wait for a server that does not
// answer, it is asked four times a second at most.
//
// # Servers
//
// Any git server over https or ssh, or a bare repository on this machine. The user in Auth must be allowed to read and to push
// to the branch. A branch that does not exist is an error, unless CreateBranch is set. Signed commits, client certificates,
// git's own configuration, SSH agents, repositories with SHA-256, and servers that insist on multi_ack (Azure DevOps) are not supported. HTTP proxies are those of the environment.
//
// Each apply compresses and sends the folders that it changes: a folder with thousands of objects of one kind is sent as a whole each
// time, some 40 bytes for each of them.
package git
