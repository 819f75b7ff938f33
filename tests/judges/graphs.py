"""Examples that read graphs, on which of Debian's packages needs which."""

import networkx as nx

from rows import at_most, same


def depends(found):
    """The graph, of packages as numbers."""
    numbers = {name: number for number, name in enumerate(found)}
    graph = nx.DiGraph()
    graph.add_nodes_from(numbers.values())
    for name, (_, _, needed, _) in found.items():
        targets = {numbers[other] for other in needed if other in numbers}
        graph.add_edges_from((numbers[name], target) for target in targets - {numbers[name]})
    return graph


def pairs(lines, kind=int):
    return {int(line.split("\t")[0]): kind(line.split("\t")[1]) for line in lines}


def edges(graph):
    return "".join(f"{a} {b}\n" for a, b in graph.edges)


def pagerank(place, found):
    graph, out = depends(found), place.fresh()
    lines = (f"{node} {' '.join(map(str, graph.successors(node)))}\n" for node in graph)
    place.example("pagerank", "--spread", "--iterations", 300, "--tolerance", 1e-6, place.give("".join(lines)), out)
    ranks = pairs(place.lines(out), float)
    expected = nx.pagerank(graph, alpha=0.85, tol=1e-16, max_iter=500)
    yield same("nodes", set(ranks), set(expected), "networkx")
    worst = max(abs(ranks[node] / len(graph) / rank - 1) for node, rank in expected.items())
    yield at_most("relative error of ranks", worst, 1e-4, "networkx")


def connected_components(place, found):
    graph, out = depends(found).to_undirected(), place.fresh()
    # Every node has a line: one without edges is an edge to itself.
    source = edges(graph) + "".join(f"{node} {node}\n" for node in graph)
    place.example("connected_components", place.give(source), out)
    expected = {node: min(part) for part in nx.connected_components(graph) for node in part}
    yield same("components", pairs(place.lines(out)), expected, "networkx")


def shortest_paths(place, found):
    graph, out = depends(found), place.fresh()
    for a, b in graph.edges:
        graph[a][b]["weight"] = 1 + (a * 31 + b) % 9
    begin = max(graph, key=graph.out_degree)
    source = "".join(f"{a}\t{b}\t{way['weight']}\n" for a, b, way in graph.edges(data=True))
    place.example("shortest_paths", "--from", begin, place.give(source), out)
    yield same("distances", pairs(place.lines(out)), dict(nx.single_source_dijkstra_path_length(graph, begin)), "networkx")


def triangles(place, found):
    graph, out = depends(found).to_undirected(), place.fresh()
    printed = place.example("triangles", place.give(edges(graph)), out)
    expected = {node: count for node, count in nx.triangles(graph).items() if count}
    yield same("triangles", printed.split()[0], str(sum(expected.values()) // 3), "networkx")
    yield same("corners", pairs(place.lines(out)), expected, "networkx")


JUDGES = {judge.__name__: judge for judge in [pagerank, connected_components, shortest_paths, triangles]}
